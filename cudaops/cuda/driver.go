package cuda

import (
	"fmt"
	"unsafe"

	"aicplan/cudaops/dl"
)

// DriverLibrary implements Driver with the real driver.
type DriverLibrary struct {
	lib *dl.Library
	fn  driverTable
}

var _ Driver = (*DriverLibrary)(nil)

// driverTable contains the addresses of the driver's functions.
type driverTable struct {
	errorName, errorString uintptr

	initialize, version, count, get, name, uuid, pci, attribute, totalMem uintptr
	retain, setCurrent, canPeer, enablePeer                               uintptr

	alloc, free, memInfo, hostAlloc, hostPointer               uintptr
	memset8, memset32, copyDtoH, copyPeer                      uintptr
	streamCreate, streamSync, streamQuery                      uintptr
	eventCreate, eventRecord, eventRecordWithFlags, eventQuery uintptr
	elapsed                                                    uintptr
	moduleLoad, moduleFunction, funcSetAttr, launch            uintptr
	beginCapture, endCapture, instantiate, upload, graphLaunch uintptr
	graphDestroy, execDestroy                                  uintptr
}

// OpenDriver opens and initializes the driver. The error is a *dl.NotFoundError if there is no driver, and wraps
// an *Error if it does not work, for example without a device.
func OpenDriver() (*DriverLibrary, error) {
	lib, err := dl.Open(DriverSpec)
	if err != nil {
		return nil, err
	}

	l := &DriverLibrary{lib: lib}
	f := &l.fn
	err = lib.Bind(map[string]*uintptr{
		"cuGetErrorName": &f.errorName, "cuGetErrorString": &f.errorString,
		"cuInit": &f.initialize, "cuDriverGetVersion": &f.version,
		"cuDeviceGetCount": &f.count, "cuDeviceGet": &f.get, "cuDeviceGetName": &f.name,
		"cuDeviceGetUuid_v2": &f.uuid, "cuDeviceGetPCIBusId": &f.pci,
		"cuDeviceGetAttribute": &f.attribute, "cuDeviceTotalMem_v2": &f.totalMem,
		"cuDevicePrimaryCtxRetain": &f.retain,
		"cuCtxSetCurrent":          &f.setCurrent,
		"cuDeviceCanAccessPeer":    &f.canPeer, "cuCtxEnablePeerAccess": &f.enablePeer,
		"cuMemAlloc_v2": &f.alloc, "cuMemFree_v2": &f.free, "cuMemGetInfo_v2": &f.memInfo,
		"cuMemHostAlloc":               &f.hostAlloc,
		"cuMemHostGetDevicePointer_v2": &f.hostPointer,
		"cuMemsetD8Async":              &f.memset8, "cuMemsetD32Async": &f.memset32,
		"cuMemcpyDtoH_v2": &f.copyDtoH, "cuMemcpyPeerAsync": &f.copyPeer,
		"cuStreamCreate":      &f.streamCreate,
		"cuStreamSynchronize": &f.streamSync, "cuStreamQuery": &f.streamQuery,
		"cuEventCreate": &f.eventCreate,
		"cuEventRecord": &f.eventRecord, "cuEventRecordWithFlags": &f.eventRecordWithFlags,
		"cuEventQuery":        &f.eventQuery,
		"cuModuleLoadData":    &f.moduleLoad,
		"cuModuleGetFunction": &f.moduleFunction, "cuFuncSetAttribute": &f.funcSetAttr,
		"cuLaunchKernel":          &f.launch,
		"cuStreamBeginCapture_v2": &f.beginCapture, "cuStreamEndCapture": &f.endCapture,
		"cuGraphInstantiateWithFlags": &f.instantiate, "cuGraphUpload": &f.upload,
		"cuGraphLaunch": &f.graphLaunch, "cuGraphDestroy": &f.graphDestroy,
		"cuGraphExecDestroy": &f.execDestroy,
	})

	if err != nil {
		return nil, err
	}

	// Drivers before CUDA 12.8 have only the older function. Both return a float.
	if f.elapsed, err = lib.Func("cuEventElapsedTime_v2"); err != nil {
		if f.elapsed, err = lib.Func("cuEventElapsedTime"); err != nil {
			return nil, err
		}
	}

	if err := l.call("cuInit", f.initialize, 0); err != nil {
		return nil, fmt.Errorf("the CUDA driver %s does not start: %w", lib.Path, err)
	}

	return l, nil
}

// Path returns the file of the driver's library.
func (l *DriverLibrary) Path() string { return l.lib.Path }

// call calls a function and converts its result to an error.
//
//go:uintptrescapes
func (l *DriverLibrary) call(name string, fn uintptr, args ...uintptr) error {
	if code := int(int32(dl.Call(fn, args...))); code != 0 {
		return l.failure(name, code)
	}
	return nil
}

func (l *DriverLibrary) failure(call string, code int) *DriverError {
	e := NewDriverError(call, code)
	var s unsafe.Pointer
	if dl.Call(l.fn.errorName, uintptr(code), uintptr(unsafe.Pointer(&s))) == 0 && s != nil {
		e.Name = dl.GoString(s)
	}

	s = nil
	if dl.Call(l.fn.errorString, uintptr(code), uintptr(unsafe.Pointer(&s))) == 0 && s != nil {
		e.Text = dl.GoString(s)
	}
	return e
}
