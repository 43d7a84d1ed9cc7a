"""How the documentation is built: `make docs`, without network; the pages need none either."""

import sys
from pathlib import Path

import selmatch

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "selmatch"
author = "The selmatch contributors"
copyright = "The selmatch contributors, Apache License 2.0"
version = release = selmatch.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "docstring_prose",
    "mathml_formulas",
    "public_names",
]
exclude_patterns = ["_build", "_ext", "gallery", "images", "generated/gallery/**.ipynb", "**/.ipynb_checkpoints"]

# pages
highlight_language = "text"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebook is stored with its outputs
nb_ipywidgets_js = {}
html_math_renderer = "mathml"

# reference: what is in selmatch.__all__, see _ext/public_names.py
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"

# gallery
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": float("inf"),
    "capture_repr": (),
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "write_computation_times": False,
}

# look
html_theme = "furo"
html_title = "selmatch"
html_static_path = ["_static"]
html_css_files = ["selmatch.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"
