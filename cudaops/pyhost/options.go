package pyhost

import (
	"time"

	"aicplan/cudaops/worker"
)

// Values of the option device.
const (
	DeviceCPU  = "cpu"
	DeviceNone = "none"
)

// OptionStartsWithin is the name of the option that limits the start of a worker.
const OptionStartsWithin = "starts_within"

// Options returns the options of a runtime of kind python. Workers read those without Engine by their names.
func Options() []worker.Option {
	return []worker.Option{
		{Name: "device", Into: new(string), OneOf: []string{DeviceCPU, DeviceNone},
			Doc: "`cpu` keeps the workers off the GPUs; `none` does too, and other runs may measure meanwhile: " +
				"for ops whose rows are no times of this machine"},
		{Name: "fills_memory", Into: new(bool), Default: false, NotInKey: true, Engine: true,
			Doc: "its workers take what memory the GPUs have, as an engine's cache does: they share a GPU with " +
				"no warm worker of another runtime"},
		{Name: "kernels", Into: new(bool), Default: false,
			Doc: "adds the column `kernels`: the kernels of one execution by name with their number, as JSON, " +
				"for the gate check `served`; null if the execution has no CUDA graph"},
		{Name: "one_worker", Into: new(bool), Default: false, NotInKey: true,
			Doc: "one worker for all GPUs of the runtime, for ops that start a process for each GPU"},
		{Name: "recycle_after", Into: new(int), NotInKey: true, Engine: true,
			Doc: "cases after which a worker is replaced"},
		{Name: OptionStartsWithin, Into: new(worker.Duration), Default: worker.Duration(5 * time.Minute),
			NotInKey: true, Engine: true,
			Doc: "how long a worker may take until it is ready: to start, and to import what its ops need"},
		{Name: "uninitialised", Into: new(string), OneOf: []string{"random", "left"},
			Doc: "`random` fills what hosted collectors allocate and leave as it is, such as weights, with random " +
				"values before a kernel is timed; `left` does not, if a binding asks for it"},
		{Name: "verify", Into: new(bool), Default: false, NotInKey: true,
			Doc: "has op functions compare their results with a reference"},
		{Name: "window", Into: new(int), NotInKey: true,
			Doc: "cases that a worker keeps at a time; 256 on a GPU, where they are prepared and measured in " +
				"batches, and 4 without one"},
		{Name: "workdir", Into: new(string), NotInKey: true,
			Doc: "where hosted collectors work; the system's temporary folder if it is not set"},
	}
}
