"""A local page that matches two images; `semisure.web.app` needs the extra ``web``."""
