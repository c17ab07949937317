"""The steps that make the schema, as SQL files in their order; `jobq_postgres.schema` applies them."""
