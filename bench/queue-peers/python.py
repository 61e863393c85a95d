"""How many operations a second a Python queue acknowledges durably; prints one line of JSON.

    python.py litequeue|persist-queue|huey DIRECTORY enqueue|cycle SECONDS CLIENTS

Threads, because a commit lets go of the interpreter while it waits for the disk, and because SQLite has
one writer whatever asks: processes were not faster, and had to wait for each other's locks in naps. A
queue that is not for several threads at once gets a lock around it.
"""
import json
import logging
import os
import sys
import threading
import time

PARAMS = {"number": 1, "to": "someone@example.org"}


class LiteQueue:
    """One connection; `synchronous` is set to FULL after it set NORMAL."""
    shape = "threads, one connection, one lock"

    def __init__(self, directory):
        from litequeue import LiteQueue
        self.queue = LiteQueue(os.path.join(directory, "queue.db"))
        self.queue.conn.execute("PRAGMA synchronous = FULL")
        self.lock = threading.Lock()

    def synchronous(self):
        return [self.queue.conn.execute("PRAGMA synchronous").fetchone()[0]]

    def enqueue(self):
        with self.lock:
            self.queue.put(json.dumps(PARAMS))

    def work(self):
        with self.lock:
            message = self.queue.pop()
        if message is None:
            return False
        with self.lock:
            self.queue.done(message.message_id)
        return True


class PersistQueue:
    """`SQLiteAckQueue`, the one that knows what was claimed and what was finished."""
    shape = "threads, its own locks"

    def __init__(self, directory):
        from persistqueue import Empty, SQLiteAckQueue
        self.empty = Empty
        self.queue = SQLiteAckQueue(directory, multithreading=True)
        for connection in self.connections():
            connection.execute("PRAGMA synchronous = FULL")

    def connections(self):
        return self.queue._getter, self.queue._putter

    def synchronous(self):
        return [connection.execute("PRAGMA synchronous").fetchone()[0] for connection in self.connections()]

    def enqueue(self):
        self.queue.put(PARAMS)

    def work(self):
        try:
            item = self.queue.get(block=False, raw=True)
        except self.empty:
            return False
        self.queue.ack(id=item["pqid"])
        return True


class Huey:
    """`SqliteHuey(fsync=True)`; a claim deletes the task, so that finishing it writes nothing."""
    shape = "threads, a connection each, one lock"

    def __init__(self, directory):
        from huey import SqliteHuey
        logging.getLogger("huey").setLevel(logging.CRITICAL)
        self.huey = SqliteHuey(filename=os.path.join(directory, "queue.db"), fsync=True, results=False, timeout=60)
        self.lock = threading.Lock()

        @self.huey.task()
        def noop(params):
            return None

        self.noop = noop

    def synchronous(self):
        return [self.huey.storage.sql("PRAGMA synchronous", results=True)[0][0]]

    def enqueue(self):
        with self.lock:
            self.noop(PARAMS)

    def work(self):
        with self.lock:
            task = self.huey.dequeue()
        if task is None:
            return False
        self.huey.execute(task)
        return True


def main():
    name, directory, what, seconds, clients = sys.argv[1:]
    clients = int(clients)
    queue = {"litequeue": LiteQueue, "persist-queue": PersistQueue, "huey": Huey}[name](directory)
    levels = queue.synchronous()
    if any(level != 2 for level in levels):
        sys.exit(f"error: `synchronous` is {levels} and not FULL")
    counts, over = [0] * clients, threading.Event()

    def client(number):
        while not over.is_set():
            queue.enqueue()
            if what == "enqueue" or queue.work():
                counts[number] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(float(seconds))
    over.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"done": sum(counts), "seconds": time.monotonic() - began,
                      "clients": f"{clients} {queue.shape}", "durability": "synchronous=FULL"}))


main()
