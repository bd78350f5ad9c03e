"""Where the page of one connected app is."""

APP = "/account/apps/app"
