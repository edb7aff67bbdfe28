import enum

GEMMQuantMode = enum.Enum("GEMMQuantMode", ["float16", "fp8"])
CommQuantMode = enum.Enum("CommQuantMode", ["half"])
