"""The bundled plugin `log`."""
