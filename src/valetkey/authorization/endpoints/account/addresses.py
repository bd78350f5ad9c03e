"""Where the pages about the person are."""

PROFILE = "/account/profile"
APP = "/account/apps/app"
DATA = "/account/data"
REMOVAL = "/account/delete"
