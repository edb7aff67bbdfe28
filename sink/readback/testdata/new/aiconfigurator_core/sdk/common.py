import enum

GEMMQuantMode = enum.Enum("GEMMQuantMode", ["bfloat16", "float16", "fp8"])
CommQuantMode = enum.Enum("CommQuantMode", ["half"])
