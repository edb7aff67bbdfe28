import surely_absent_module


def x(bench):
    return surely_absent_module.run(bench)
