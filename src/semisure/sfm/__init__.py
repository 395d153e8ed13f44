"""From matches of many pairs to keypoints, hloc's and COLMAP's files, and a model."""
