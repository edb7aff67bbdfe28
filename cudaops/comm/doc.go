// Package comm measures communication between GPUs: NCCL's collectives, two all-reduce kernels over peer
// memory, and copies between peers.
//
// A crew manages the ranks, one per GPU. There are two kinds of ranks. Threads are ranks inside this
// process, each on a separate operating system thread, like nccl-tests with -t. The eager method uses them,
// because its host clock runs between barriers. Processes are ranks with a separate process each, like in
// serving frameworks. The graph method uses them, because NCCL warns of deadlocks if one process replays
// graphs on several GPUs. Both kinds run the same tasks. A task is sent to all ranks. If one of them fails,
// the others are released and the communicator is aborted, and the next case creates a new one.
//
// Each case is verified before it is timed: the ranks send a known pattern, and each receive buffer is
// compared on its device.
package comm
