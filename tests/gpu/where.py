"""Where Kiln's programs are: in the build tree, or in the bundle that this folder came with."""
import pathlib

_ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = next((folder for folder in (_ROOT / "build/bin", _ROOT / "bin") if folder.is_dir()),
           _ROOT / "build/bin")
