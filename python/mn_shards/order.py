"""The order of an epoch, and its division between ranks: runtime/mn/data/order.cpp and step_division.cpp, which explain
the terms lane, chunk, window and round. Each function computes many positions at once."""
import dataclasses

import numpy as np

_FULL_SHUFFLE_BYTES, _MEDIUM_BYTES, _MAX_LIVE_BYTES = 128 << 20, 8 << 30, 256 << 20
_STREAM, _SAMPLES, _CHUNKS, _PHASE, _LANE = range(1, 6)  # purposes of keys


@dataclasses.dataclass(frozen=True)
class OrderOptions:
    shuffle: bool = False
    lanes: int = 1
    adjacent: int = 1
    windows: int = 1
    mixed: bool = False
    aligned: int = 1


@dataclasses.dataclass(frozen=True)
class Layout:
    """How samples lie in files: StorageLayout of runtime/mn/data/dataset.hpp."""
    bytes: int
    files: int
    block_samples: int
    index_bytes: int = 0
    is_packed: bool = False
    live_bytes: int = 0


def _u64(value):
    """At least one dimension: numpy warns of overflows in operations of scalars."""
    return np.atleast_1d(np.asarray(value, np.uint64))


def _mix(a, b=None):
    """SplitMix64 of a; of two keys, a hash of both."""
    x = _u64(a) + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    x = x ^ (x >> 31)
    return x if b is None else _mix(x ^ _u64(b))


def permute(x, n, key):
    """The images of the numbers x < n by a permutation of [0, n); `key` may be one for each number."""
    if n <= 1:
        return x
    bits = max(2, (n - 1).bit_length())
    left_bits, right_bits = bits // 2, bits - bits // 2
    left_mask, right_mask = (1 << left_bits) - 1, (1 << right_bits) - 1
    x = _u64(x)
    keys = np.stack([np.broadcast_to(_mix(key, i), x.shape) for i in range(6)])
    out = np.arange(len(x))
    while len(out):  # cycle walking: those that are not below n yet
        left, right, own = x[out] >> right_bits, x[out] & right_mask, keys[:, out]
        for i in range(0, 6, 2):
            left = left ^ (_mix(right ^ own[i]) & left_mask)
            right = right ^ (_mix(left ^ own[i + 1]) & right_mask)
        x[out] = left << right_bits | right
        out = out[x[out] >= n]
    return x.astype(np.int64)


def _least_lane_samples(lanes, layout):
    if not layout.is_packed and layout.bytes < _MEDIUM_BYTES and lanes <= 768:
        return max(4 * layout.block_samples, 8)
    return max(16 * layout.block_samples, 192)


def _order_for_any_ranks(n, layout, block_bytes):
    file_samples = n / layout.files
    open_files = min(max((40 << 20) / max(layout.index_bytes / layout.files, 1.0), 1.0), 640.0)
    mixed = layout.block_samples == 1 and block_bytes >= 32 << 10
    lanes = 3072
    while lanes > 3:
        samples = _least_lane_samples(lanes, layout)
        is_live = layout.block_samples == 1 or lanes * block_bytes <= _MAX_LIVE_BYTES
        if lanes * samples <= n and is_live:
            all_open = layout.files <= open_files
            samples = max(samples, 1024) if all_open else samples
            windows, adjacent = max(1, n // (lanes * samples)), 1
            while not all_open and adjacent <= lanes // 3:
                used = min(lanes // adjacent + lanes * samples / file_samples, 2.0 * lanes)
                if used <= open_files:
                    break
                adjacent *= 2
            if all_open or adjacent <= lanes // 3:
                return OrderOptions(True, lanes, adjacent, windows, mixed)
        lanes //= 2
    return OrderOptions(True, lanes, 1, max(1, n // (lanes * _least_lane_samples(lanes, layout))), mixed)


def default_order(n, layout, shuffle, ranks):
    if not shuffle or layout.files == 0 or layout.bytes <= _FULL_SHUFFLE_BYTES:
        return OrderOptions(shuffle)
    block_bytes = max(layout.bytes / n * layout.block_samples, float(layout.live_bytes))
    order = _order_for_any_ranks(n, layout, block_bytes)
    rank_bytes = min(_MAX_LIVE_BYTES, (40 << 20) + _MAX_LIVE_BYTES // ranks)
    own = -(-order.lanes // ranks)
    is_divided_well = (order.lanes % ranks == 0 or own >= 32) and own * block_bytes <= rank_bytes
    if order.lanes == 1 or not layout.is_packed or is_divided_well:
        return order
    least = max(16 * layout.block_samples, 192)
    own = 1 << (max(3072 // ranks, 1).bit_length() - 1)
    while own > 1 and (own * block_bytes > rank_bytes or own * ranks * least > n):
        own //= 2
    lanes = min(own * ranks, n)
    windows = max(n // (lanes * max(least, 1024)), 1)
    if lanes == 1:
        windows = min(max(n, 1), max(windows, 2))
    return OrderOptions(True, lanes, 1, windows, False, layout.block_samples)


class EpochOrder:
    def __init__(self, n, options, seed, epoch):
        self._n, self._options = n, options
        self.lanes = options.lanes if options.shuffle else 1
        key = _mix(seed, epoch)
        self._has_lanes = self.lanes > 1 or options.shuffle and options.windows > 1
        self._samples_key = _mix(_mix(key, _STREAM), _SAMPLES)
        if not self._has_lanes:
            return
        self._keys = {purpose: _mix(key, purpose) for purpose in (_CHUNKS, _PHASE, _LANE)}
        self._per_window = self.lanes // options.adjacent
        self._chunks = options.windows * self._per_window
        self._chunk_samples, self._longer = divmod(n, self._chunks)
        chosen = permute(np.arange(self._chunks), self._chunks, self._keys[_CHUNKS])
        self._chosen = np.asarray(chosen, np.int64).reshape(options.windows, -1)
        sizes = self._per_window * self._chunk_samples + (self._chosen < self._longer).sum(1)
        self._window_firsts = np.concatenate([[0], np.cumsum(sizes)])

    def stretches(self, first, last):
        """(window, first, last) with positions counted from the window's beginning."""
        if not self._has_lanes:
            return [(0, first, last)]
        firsts, found = self._window_firsts, []
        window = int(np.searchsorted(firsts, first, "right")) - 1
        while window + 1 < len(firsts) and firsts[window] < last:
            begin, end = int(firsts[window]), int(firsts[window + 1])
            if begin < end:
                found.append((window, max(first - begin, 0), min(last, end) - begin))
            window += 1
        return found

    def _window_chunks(self, window):
        """Begin, length and phase of each chunk of the window."""
        at, aligned = self._chosen[window], self._options.aligned
        length = self._chunk_samples + (at < self._longer)
        begin = at * self._chunk_samples + np.minimum(at, self._longer)
        first = -(-begin // aligned) * aligned - begin
        phases = np.maximum(-(-(length - first) // aligned), 0)
        chosen = _mix(self._keys[_PHASE], at) % np.maximum(phases, 1).astype(np.uint64)
        return begin, length, np.where(phases > 0, first + chosen.astype(np.int64) * aligned, 0)

    def _lane_lengths(self, length, lane):
        adjacent = self._options.adjacent
        return length // adjacent + (lane // self._per_window < length % adjacent)

    def rounds(self, window, first, last):
        """For each lane, the first round with a position in [first, last) of the window, and that after the last."""
        if not self._has_lanes:
            return np.array([first]), np.array([last])
        full = self._chunk_samples // self._options.adjacent
        lane = np.arange(self.lanes)
        cuts = [min(cut, full * self.lanes) for cut in (first, last)]
        begins, ends = (cut // self.lanes + (lane < cut % self.lanes) for cut in cuts)
        if last > full * self.lanes:
            length = self._window_chunks(window)[1][lane % self._per_window]
            longer = np.flatnonzero(self._lane_lengths(length, lane) > full)
            position = full * self.lanes + np.arange(len(longer))
            begins[longer[position < first]] = full + 1
            ends[longer[position < last]] = full + 1
        return begins, ends

    def samples(self, window, lane, number):
        """The sample of each lane in the round `number`."""
        if not self._has_lanes:
            return permute(number, self._n, self._samples_key) if self._options.shuffle else number
        begin, length, phase = (values[lane % self._per_window] for values in self._window_chunks(window))
        part, adjacent = lane // self._per_window, self._options.adjacent
        offset = part * (length // adjacent) + np.minimum(part, length % adjacent)
        if self._options.mixed:
            number, lengths = number.copy(), self._lane_lengths(length, lane)
            keys = _mix(self._keys[_LANE], begin + offset)
            for own in np.unique(lengths):
                of = lengths == own
                number[of] = permute(number[of], int(own), keys[of])
        return begin + (offset + number + phase) % length


def divide_lanes(counts, rank, ranks):
    """The rank's pieces (lane, first, count) of a step that takes counts[l] samples from lane l, as three arrays."""
    lanes, own = len(counts), len(counts) // ranks * ranks
    left = np.diff(-(-np.arange(ranks + 1) * int(counts.sum()) // ranks))
    taken = np.zeros(lanes, np.int64)
    taken[:own] = np.diff(np.minimum(np.cumsum(counts[:own].reshape(-1, ranks), 0), left), axis=0, prepend=0).ravel()
    left = left - taken[:own].reshape(-1, ranks).sum(0)
    mine = np.arange(rank, own, ranks)
    pieces = [np.stack([mine, np.zeros_like(mine), taken[mine]])]
    for r in np.flatnonzero(left) if 0 < own < lanes else ():
        lane = own + r % (lanes - own)
        count = min(counts[lane] - taken[lane], left[r])
        if r == rank:
            pieces.append(np.array([[lane], [taken[lane]], [count]]))
        taken[lane] += count
        left[r] -= count
    # What is left in the lanes goes, lane by lane, to the ranks that need more samples.
    ends, needed = np.cumsum(counts - taken), int(left[:rank].sum())
    begins = ends - (counts - taken)
    low, high = np.maximum(begins, needed), np.minimum(ends, needed + int(left[rank]))
    lane = np.flatnonzero(high > low)
    pieces.append(np.stack([lane, (taken + low - begins)[lane], (high - low)[lane]]))
    return np.concatenate(pieces, axis=1)


def step_samples(order, first, last, rank, ranks):
    """The rank's samples of positions [first, last) of the epoch, lane by lane."""
    rounds = [(window, *order.rounds(window, begin, end)) for window, begin, end in order.stretches(first, last)]
    lane, skip, count = divide_lanes(sum(ends - begins for _, begins, ends in rounds), rank, ranks)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - skip, count)  # in the lane, in this step
    lane = np.repeat(lane, count)
    samples = np.empty(len(lane), np.int64)
    for window, begins, ends in rounds:
        here = (number >= 0) & (number < (ends - begins)[lane])
        samples[here] = order.samples(window, lane[here], begins[lane[here]] + number[here])
        number = number - (ends - begins)[lane]
    return samples
