package cuda

import (
	"fmt"
	"unsafe"

	"aicplan/cudaops/dl"
)

// DriverLibrary implements Driver with the real driver.
type DriverLibrary struct {
	library
	driverTable
	elapsed dl.Symbol
}

// driverTable has the functions of the driver.
type driverTable struct {
	cuGetErrorName, cuGetErrorString, cuInit                            dl.Symbol
	cuDriverGetVersion, cuDeviceGetCount, cuDeviceGet                   dl.Symbol
	cuDeviceGetName, cuDeviceGetUuid_v2, cuDeviceGetPCIBusId            dl.Symbol
	cuDeviceGetAttribute, cuDeviceTotalMem_v2, cuDevicePrimaryCtxRetain dl.Symbol
	cuCtxSetCurrent, cuDeviceCanAccessPeer, cuCtxEnablePeerAccess       dl.Symbol
	cuMemAlloc_v2, cuMemFree_v2, cuMemGetInfo_v2                        dl.Symbol
	cuMemHostAlloc, cuMemHostGetDevicePointer_v2, cuMemsetD8Async       dl.Symbol
	cuMemsetD32Async, cuMemcpyDtoH_v2, cuMemcpyPeerAsync                dl.Symbol
	cuStreamCreate, cuStreamSynchronize, cuStreamQuery                  dl.Symbol
	cuEventCreate, cuEventRecord, cuEventRecordWithFlags                dl.Symbol
	cuEventQuery, cuModuleLoadData, cuModuleGetFunction                 dl.Symbol
	cuFuncSetAttribute, cuLaunchKernel, cuStreamBeginCapture_v2         dl.Symbol
	cuStreamEndCapture, cuGraphInstantiateWithFlags, cuGraphUpload      dl.Symbol
	cuGraphLaunch, cuGraphDestroy, cuGraphExecDestroy                   dl.Symbol
}

// OpenDriver opens and initializes the driver. The error is a *dl.NotFoundError if there is no driver, and wraps
// an *Error if it does not work, for example without a device.
func OpenDriver() (*DriverLibrary, error) {
	l := new(DriverLibrary)
	if err := l.open(DriverSpec, &l.driverTable); err != nil {
		return nil, err
	}

	// Drivers before CUDA 12.8 have only the older function. Both return a float.
	var err error
	if l.elapsed, err = l.lib.Symbol("cuEventElapsedTime_v2"); err != nil {
		l.elapsed, err = l.lib.Symbol("cuEventElapsedTime")
	}
	if err != nil {
		return nil, err
	}

	if err := l.call(l.cuInit, 0); err != nil {
		return nil, fmt.Errorf("the CUDA driver %s does not start: %w", l.Path(), err)
	}

	return l, nil
}

// call calls a function and converts its result to an error.
//
//go:uintptrescapes
func (l *DriverLibrary) call(f dl.Symbol, args ...uintptr) error {
	if code := int(int32(dl.Call(f.At, args...))); code != 0 {
		return l.failure(f.Name, code)
	}
	return nil
}

func (l *DriverLibrary) failure(call string, code int) *DriverError {
	e := NewDriverError(call, code)
	var s unsafe.Pointer
	if dl.Call(l.cuGetErrorName.At, uintptr(code), uintptr(unsafe.Pointer(&s))) == 0 && s != nil {
		e.Name = dl.GoString(s)
	}

	s = nil
	if dl.Call(l.cuGetErrorString.At, uintptr(code), uintptr(unsafe.Pointer(&s))) == 0 && s != nil {
		e.Text = dl.GoString(s)
	}
	return e
}
