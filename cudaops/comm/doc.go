// Package comm measures communication between the GPUs of one node: NCCL's
// collectives, two all-reduce kernels over peer memory, and copies between
// peers.
//
// A crew is the ranks of a node, one per GPU. Two kinds exist. Threads are
// ranks of this process, each on an operating system thread of its own: what
// nccl-tests does with -t, and what the eager method needs, whose host clock
// runs between barriers. Processes are ranks with a process each, as serving
// frameworks have them: what the graph method needs, because NCCL warns of
// deadlocks when one process replays graphs on several GPUs. Both do the same
// tasks; every task is given to all ranks, and an error of one ends it for all:
// the others are released, the communicator is aborted, and the next case makes
// a new one.
//
// Every case is checked for correctness before it is timed: ranks send a known
// pattern, and each receive buffer is compared on its device.
package comm
