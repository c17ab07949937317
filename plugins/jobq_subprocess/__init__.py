"""The bundled plugin `subprocess`: the default executor, which runs commands and handlers on this machine."""
