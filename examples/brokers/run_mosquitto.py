"""Which guarantees Mosquitto keeps, when a member or Mosquitto itself is killed.

    apt-get install mosquitto
    python examples/brokers/run_mosquitto.py

records twelve runs (half a minute), makes a trace of the logs, and audits it.
"""

from broker_runs import MOSQUITTO, main

if __name__ == "__main__":
    main(MOSQUITTO)
