"""`python -m guidebench` is `bench`."""

from guidebench.harness.cli import main

raise SystemExit(main())
