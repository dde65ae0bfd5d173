"""``simsc serve``: one static page and a small API for matching two images; needs the extra ``web``."""
