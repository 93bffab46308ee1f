"""Measuring on many machines at once: a cluster of Ray, one worker a machine.

    with connect("ray://head:10001") as cluster:
        target = cluster.target("cpu:cascadelake")
        with cluster.runner(target) as runner:
            asd.tune(net, target, runner=runner)

``dispatcher`` says who measures what and knows nothing of Ray; ``runner`` keeps the machines busy;
``worker`` is what runs on each of them; ``cluster`` and ``actors`` are all that Ray sees.
"""
