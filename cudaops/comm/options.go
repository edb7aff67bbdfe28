package comm

import (
	"fmt"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// Measurement methods.
const (
	MethodEager = "eager" // back-to-back launches, timed by the host's clock
	MethodGraph = "graph" // events inside a graph, time of the slowest rank
)

// settings are the options of a runtime of kind nccl.
type settings struct {
	Method       string
	RankDeadline float64 // seconds

	Nodes, GPUsPerNode int
	RankLauncher       []string

	// Devices are the device indices of the ranks, set by the engine. Empty means all.
	Devices []int
}

// Options returns the options of runtimes of kind nccl.
func Options() []worker.Option { return new(settings).declare() }

func (o *settings) declare() []worker.Option {
	return []worker.Option{
		{Name: "gpus_per_node", Into: &o.GPUsPerNode, Min: 1, Max: 64,
			Doc: "GPUs of each node that communicate, if nodes is above 1"},
		{Name: "method", Into: &o.Method, OneOf: []string{MethodEager, MethodGraph},
			Doc: "how collectives are timed, for all cases"},
		{Name: "nodes", Into: &o.Nodes, Default: 1, Min: 1, Max: 4096,
			Doc: "nodes whose GPUs communicate, such as those of an executor's task"},
		{
			Name:     "rank_launcher",
			Into:     &o.RankLauncher,
			NotInKey: true,
			Doc: "the command that starts a process for each GPU of several nodes; srun by default. `{ranks}`, `{nodes}` " +
				"and `{gpus_per_node}` are replaced",
		},
		// The first collective of a communicator establishes the connections.
		{Name: "rank_deadline", Into: &o.RankDeadline, Default: 15.0, Min: 0.001, Max: 3600,
			Doc: "seconds after which a rank that does not answer ends the case"},
	}
}

func readOptions(init worker.Init) (settings, error) {
	var o settings
	supplied := worker.Option{Name: "devices", Into: &o.Devices}
	if err := worker.Decode(append(o.declare(), supplied), init.Options); err != nil {
		return o, err
	}

	switch {
	case o.Nodes > 1 && o.GPUsPerNode == 0:
		return o, fmt.Errorf("option nodes is %d; set gpus_per_node to the number of ranks on each", o.Nodes)
	case o.Nodes > 1 && len(o.Devices) > 0:
		return o, fmt.Errorf("option devices is for one node; across nodes, a rank uses the GPU of its number on the node")
	case o.Nodes == 1 && (o.GPUsPerNode > 0 || len(o.RankLauncher) > 0):
		return o, fmt.Errorf("options gpus_per_node and rank_launcher are for several nodes; set nodes to their number")
	}

	return o, nil
}

// launcher returns the command that starts ranks on several nodes.
func (o settings) launcher() []string {
	if len(o.RankLauncher) == 0 {
		return Srun
	}
	return o.RankLauncher
}

func readSettings(init worker.Init) (measure.Settings, error) {
	s, err := measure.ReadSettings(init.Measure)
	if err != nil {
		return s, err
	}
	if s.Power {
		return s, fmt.Errorf("measure settings: power is not measured for collectives; leave power off")
	}

	return s, nil
}

// method returns the method of a case that names none: the runtime's, the one implied by the measure block's graph
// setting, or eager.
func (o settings) method(s measure.Settings) string {
	switch {
	case o.Method != "":
		return o.Method
	case s.Graph == measure.GraphRequire:
		return MethodGraph
	}

	return MethodEager
}
