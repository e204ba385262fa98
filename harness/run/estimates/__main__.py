"""The process that times cells: `measuring.main`."""

from guidebench.harness import processes
from guidebench.harness.run.estimates.measuring import main

if __name__ == "__main__":
    processes.begin()
    main()
    processes.leave(0)
