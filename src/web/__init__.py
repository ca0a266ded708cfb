"""Web: health, metrics and webhook, the admin page, and the Mini App."""
