// Package cudatest has fakes of the CUDA libraries for tests without a GPU. Time is virtual: it advances when
// work is waited for.
//
// Driver is one device with streams whose work takes the time of a measuretest.GPU. Lt is a cuBLASLt on it,
// whose products take the time of a roofline model. Node is a machine with several devices and an NCCL whose
// collectives move data in their memory. NVML is a management library whose readings are set by the test. RTC
// is a compiler.
package cudatest
