"""The part of ``sglang.srt`` that a check of arguments imports."""
