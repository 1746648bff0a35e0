# count_signals.py NAME: makes the file NAME.RANK, waits for SIGUSR1 and prints how often it came. The handler of the
# interpreter writes a byte each time, also where the handlers of scripts run once for several.
import os
import signal
import sys
import time

reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
signal.signal(signal.SIGUSR1, lambda *_: None)
open(f"{sys.argv[1]}.{os.environ['RANK']}", "w").close()
count = len(os.read(reader, 1))
time.sleep(1)
os.set_blocking(reader, False)
try:
    count += len(os.read(reader, 100))
except BlockingIOError:
    pass
print("got", count)
