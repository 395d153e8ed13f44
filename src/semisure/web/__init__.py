"""A local page to try two images on; `semisure.web.app` needs the extra ``web``."""
