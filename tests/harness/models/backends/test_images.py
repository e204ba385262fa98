"""PNG files: any reader sees what was written, and only images of bounded size are read."""

import io

import numpy as np
import pytest
from PIL import Image

from guidebench.harness.models.backends import images

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 5, 3), (7, 1, 3), (33, 47, 3)])
def test_a_written_image_is_read_back_bit_for_bit(shape: tuple[int, int, int]) -> None:
    image = RNG.integers(0, 256, shape, dtype=np.uint8)
    data = images.png(image)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), image)
    assert np.array_equal(images.pixels(data), image)
    assert np.array_equal(images.pixels(images.png(image[::-1, ::-1])), image[::-1, ::-1])


def saved_png(mode: str, size: tuple[int, int], kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no PNG"),
        (b"GIF89a", "no PNG"),
        (saved_png("RGB", (8, 8), "BMP"), "no PNG"),
        (images.png(np.zeros((8, 8, 3), np.uint8))[:-30], "no PNG"),
        (saved_png("RGBA", (8, 8)), "mode RGBA"),
        (saved_png("RGB", (8_192, 4_096)), "8192 × 4096"),
    ],
)
def test_what_is_no_image_of_ours_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        images.pixels(data)
