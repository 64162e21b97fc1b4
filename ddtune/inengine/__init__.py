"""Programs run by the service's own Python; they may import torch and sglang, nothing of ddtune."""
