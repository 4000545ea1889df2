"""Writes a Perfetto trace of so many slices and as many scheduler switches, for `bench`.

    generate.py FILE COUNT

Slices as an SDK writes them: interned names, a sequence for each of 40 threads, begin and end each a packet. Switches as
a phone writes them: the compact form, in bundles of 500 of one of 8 processors.
"""
import random
import sys


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field, values):
    return message(field, b"".join(map(varint, values)))


THREADS, CPUS, NAMES, OF_A_BUNDLE = 40, 8, 350, 500


def main(path, count):
    random.seed(1)
    with open(path, "wb") as out:
        def packet(content):
            out.write(message(1, content))

        clocks = b"".join(message(1, number(1, clock) + number(2, at)) for clock, at in [(6, 10**9), (1, 17 * 10**17)])
        packet(message(6, clocks))
        tree = message(1, number(1, 100) + message(3, b"com.example"))
        packet(message(2, tree))
        for thread in range(THREADS):
            names = b"".join(message(2, number(1, 1 + name) + message(2, b"section %d of it" % name)) for name in range(NAMES))
            track = number(1, 1000 + thread) + message(4, number(1, 100) + number(2, 100 + thread) + message(5, b"thread%d" % thread))
            packet(number(10, 1 + thread) + number(13, 1) + message(12, names) + message(60, track))
        at, depth = 10**9, [0] * THREADS
        switches = [([], [], [], [], []) for _ in range(CPUS)]
        last = [0] * CPUS
        comms = b"".join(message(5, b"thread%d" % thread) for thread in range(THREADS))

        def bundle(cpu):
            columns = switches[cpu]
            content = comms + b"".join(packed(field, column) for field, column in zip((1, 2, 3, 4, 6), columns, strict=True))
            packet(number(10, 500 + cpu) + message(1, number(1, cpu) + message(4, content)))
            for column in columns:
                column.clear()
            last[cpu] = 0

        for step in range(2 * count):
            at += random.randrange(1, 2000)
            thread = random.randrange(THREADS)
            if depth[thread] and (depth[thread] > 8 or step % 2):
                depth[thread] -= 1
                event = b"\x48\x02" + number(11, 1000 + thread)
            else:
                depth[thread] += 1
                event = b"\x48\x01" + number(10, 1 + random.randrange(NAMES)) + number(11, 1000 + thread)
            packet(number(8, at) + number(10, 1 + thread) + b"\x68\x02" + message(11, event))
            if step % 2:
                continue
            cpu = step // 2 % CPUS
            times, states, nexts, priorities, names = switches[cpu]
            times.append(at - last[cpu])
            last[cpu] = at
            states.append(random.choice((0, 1, 2, 2048)))
            nexts.append(100 + (thread + step) % THREADS)
            priorities.append(120)
            names.append((thread + step) % THREADS)
            if len(times) == OF_A_BUNDLE:
                bundle(cpu)
        for cpu in range(CPUS):
            bundle(cpu)


main(sys.argv[1], int(sys.argv[2]))
