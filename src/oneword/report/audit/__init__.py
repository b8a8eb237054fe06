"""An encoder's signal against its noise: tables, chart, page and terminal."""
