"""Internal package of autosched; users import only ``autosched``."""

_OWNER = "autosched"
