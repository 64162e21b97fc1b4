"""Change it safely: adopt, switch, watch, rollback."""
