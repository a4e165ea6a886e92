"""Which guarantees Redis keeps, when a member or Redis itself is killed.

    apt-get install redis-server
    python examples/brokers/run_redis.py

records twelve runs (half a minute), makes a trace of the logs, and audits it.
"""

from broker_runs import REDIS, main

if __name__ == "__main__":
    main(REDIS)
