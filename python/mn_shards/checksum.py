"""CRC-32C of bytes, computed by numpy for all 8-byte words at once.

The CRC is linear over GF(2): the CRC of a text is the exclusive or of its parts' CRCs, each followed by as many zero
bytes as stand behind the part. So the words' CRCs are combined in pairs, level by level. Zeros before a text change
nothing; the initial value 0xFFFFFFFF inverts the text's first four bytes."""
import functools

import numpy as np


def _byte_tables():
    """[k][b]: CRC, without initial value and final inversion, of the byte b and k zero bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    tables = [table]
    for _ in range(7):
        tables.append((tables[-1] >> 8) ^ table[tables[-1] & 255])
    return tables


_TABLES = _byte_tables()


def _append_zeros(tables, crcs):
    return (tables[0][crcs & 255] ^ tables[1][(crcs >> 8) & 255] ^ tables[2][(crcs >> 16) & 255] ^ tables[3][crcs >> 24])


@functools.lru_cache(maxsize=None)
def _zeros(level):
    """Tables, one for each byte of a CRC, that append 8 · 2^level zero bytes."""
    if level == 0:
        return _TABLES[7:3:-1]
    half = _zeros(level - 1)
    return [_append_zeros(half, table) for table in half]


def crc32c(data):
    if len(data) < 4:
        crc = 0xFFFFFFFF
        for byte in bytes(data):
            crc = int(_TABLES[0][(crc ^ byte) & 255]) ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF
    padding = -len(data) % 8
    words = np.zeros(padding + len(data), np.uint8)
    words[padding:] = np.frombuffer(data, np.uint8)
    words[padding:padding + 4] ^= 255
    words = words.reshape(-1, 8)
    crcs = functools.reduce(np.bitwise_xor, (_TABLES[7 - k].take(words[:, k]) for k in range(8)))
    level = 0
    while len(crcs) > 1:
        if len(crcs) % 2:
            crcs = np.concatenate([np.zeros(1, np.uint32), crcs])
        crcs = _append_zeros(_zeros(level), crcs[0::2]) ^ crcs[1::2]
        level += 1
    return int(crcs[0]) ^ 0xFFFFFFFF
