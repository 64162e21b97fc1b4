"""The least that looks like SGLang's arguments."""

import argparse


def prepare_server_args(argv):
    parser = argparse.ArgumentParser(prog="sglang serve")
    parser.add_argument("--port", type=int)
    parser.add_argument("--api-key")
    parser.add_argument("--tp-size", type=int, choices=[1, 2, 4, 8])
    return parser.parse_args(argv)
