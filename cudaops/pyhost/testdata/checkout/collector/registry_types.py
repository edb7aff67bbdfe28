from enum import Enum


class PerfFile(str, Enum):
    MOE = "moe_perf.txt"
