package cuda

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

const funcAttrMaxDynamicShared = 8

func (l *DriverLibrary) LoadModule(image []byte) (Module, error) {
	// PTX must end with a zero byte, which does not affect a cubin.
	img := append(image[:len(image):len(image)], 0)
	var m Module
	err := l.call(l.cuModuleLoadData, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&img[0])))

	return m, err
}

func (l *DriverLibrary) Function(m Module, name string) (Function, error) {
	b := append([]byte(name), 0)
	var f Function
	err := l.call(l.cuModuleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m),
		uintptr(unsafe.Pointer(&b[0])))
	if err != nil {
		return 0, fmt.Errorf("kernel %q: %w", name, err)
	}
	return f, nil
}

func (l *DriverLibrary) SetMaxDynamicShared(f Function, bytes int) error {
	return l.call(l.cuFuncSetAttribute, uintptr(f), funcAttrMaxDynamicShared, uintptr(bytes))
}

func (l *DriverLibrary) Launch(k Launch, s Stream) error {
	words, err := packArgs(k.Args)
	if err != nil {
		return fmt.Errorf("cuLaunchKernel: %w", err)
	}

	// The driver reads an array of pointers to the values during the call, so they must not be moved or
	// freed until it returns.
	var pin runtime.Pinner
	defer pin.Unpin()
	var params uintptr
	if len(words) > 0 {
		ptrs := make([]unsafe.Pointer, len(words))
		pin.Pin(&words[0])
		pin.Pin(&ptrs[0])
		for i := range words {
			ptrs[i] = unsafe.Pointer(&words[i])
		}
		params = uintptr(unsafe.Pointer(&ptrs[0]))
	}

	return l.call(l.cuLaunchKernel, uintptr(k.Func),
		uintptr(k.Grid[0]), uintptr(k.Grid[1]), uintptr(k.Grid[2]),
		uintptr(k.Block[0]), uintptr(k.Block[1]), uintptr(k.Block[2]),
		uintptr(k.SharedMemory), uintptr(s), params, 0)
}

// packArgs stores each argument in a separate word, low bytes first.
func packArgs(args []any) ([]uint64, error) {
	words := make([]uint64, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case Ptr:
			words[i] = uint64(v)

		case int32:
			words[i] = uint64(uint32(v))

		case uint32:
			words[i] = uint64(v)

		case int64:
			words[i] = uint64(v)

		case uint64:
			words[i] = v

		case float32:
			words[i] = uint64(math.Float32bits(v))

		case float64:
			words[i] = math.Float64bits(v)

		default:
			return nil, fmt.Errorf(
				"argument %d is %T: a kernel takes Ptr, int32, uint32, int64, uint64, float32 or float64", i, a)
		}
	}

	return words, nil
}
