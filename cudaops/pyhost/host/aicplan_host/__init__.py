"""The Python worker of aicplan: runs op functions and existing collectors.

The engine starts this package, packed into one zip file, as a subprocess and
speaks newline-delimited JSON with it over two inherited descriptors
(AICPLAN_FD_IN and AICPLAN_FD_OUT, or --fd-in and --fd-out). Standard output and
standard error belong to the op code and end in the worker's log. Only the
standard library is imported here; torch is used where an op, or the device,
needs it. Python 3.9 and later.

A module imports from those above it in this list:

    compiled     the code of this package
    errors       failure classes
    attaching    files that an op leaves with its case
    channel      messages
    environment  device, processor, packages
    rows         values of rows
    kernels      the kernels that a captured graph launches
    cuda         what measurements on one device share
    targets      what is timed
    preparing    what op functions and collectors measure with
    offering     cases that are prepared here and measured by the engine
    digest       SHA-256
    fresh        modules that are read from their source
    source       Python files
    imports      the code that an op is measured with
    functions    ops that are functions
    reads        files of other stages that an op reads
    joining      rows and the measurements that they come from
    deferring    rows whose measurements are not there yet
    spool        rows between processes
    ports        the ports of process groups of one
    filling      values for what a collector allocates and never fills
    helper       the stand-in for a checkout's helper module
    defaults     torch's defaults
    matching     cases in a collector's list
    collectors   ops of collectors
    child        child processes of collectors
    workdir      the folder that collectors work in
    ranks        ops of collectors that are a process for each GPU
    tuning       the case that torch compiles for first
    host         one worker
    loop         the conversation with the engine
"""

from .compiled import install

install(__path__[0], __spec__.loader)
