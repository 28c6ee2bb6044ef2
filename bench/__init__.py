"""What the monitor costs: programs that measure it (`python -m bench.<folder>.<module>` in the checkout).

    traffic/  records as a busy cluster's coordinators write them, loaded once or fed for a time
    measure/  CPU, memory and growth of processes; Spark sessions; shares of a profile
    core/     what runs without Spark: decoding, the coordinator, the driver
    job/      the Spark job: stages, batches, restarts, growth, the live page
    rivals/   KMinion and Burrow beside the engines

`bench.suite` runs the plans of `make bench`, `make bench-rivals` and `make bench-scale`.
"""
