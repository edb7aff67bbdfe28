// Package comm measures communication between GPUs: NCCL's collectives, and copies between the GPUs of one
// node.
//
// Each rank is a process with one GPU, as in serving frameworks. A group starts the ranks, on this node or
// with a launcher such as srun on several, and sends each task to all of them by TCP. If a task fails, all
// ranks are ended and the next case starts them again.
//
// Each case is verified before it is timed: the ranks send a known pattern, and each receive buffer is
// compared on its device.
package comm
