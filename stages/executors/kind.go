// Package executors is the block "executor": where the cases of a collect are
// measured. The kind "local" measures in this process. The kind "slurm" splits
// the cases into tasks of a job array; every task is aicplan itself, on a node
// of the cluster. An executor changes no key: a row means the same wherever its
// case was scheduled.
package executors

import (
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// Kinds of executors.
const (
	Local = "local"
	Slurm = "slurm"
)

// Containers that a task can run in.
const (
	Pyxis     = "pyxis"
	Apptainer = "apptainer"
)

// Kind registers the block.
func Kind() stage.ServiceKind {
	return stage.ServiceKind{
		Name:    "executor",
		Summary: "where the cases of a collect are measured: here, or in jobs of Slurm",
		Options: []stage.Option{
			{Name: "kind", Type: cty.String, Required: true, OneOf: []string{Local, Slurm}, Doc: "local measures in this process, slurm in jobs"},
			{Name: "account", Type: cty.String, Doc: "the account that is charged (-A)"},
			{Name: "partition", Type: cty.String, Doc: "the partition (-p)"},
			{Name: "qos", Type: cty.String, Doc: "the quality of service (-q)"},
			{Name: "constraint", Type: cty.String, Doc: "features that the nodes must have (-C)"},
			{Name: "time", Type: cty.String, Doc: "time limit of a task, as Slurm writes it: 30, 00:30:00, 1-00 (-t)"},
			{Name: "nodes", Type: cty.Number, Default: "1", Doc: "nodes of each task (-N)"},
			{Name: "tasks_per_node", Type: cty.Number, Default: "1", Doc: "processes on each node that srun starts (--ntasks-per-node)"},
			{Name: "gpus_per_node", Type: cty.Number, Doc: "GPUs of each node (--gpus-per-node)"},
			{Name: "gpus_by", Type: cty.List(cty.String), Doc: "columns whose product is the number of GPUs that a case needs: an array for each number, on as few nodes as have them; gpus_per_node is then the most"},
			{Name: "cpus_per_task", Type: cty.Number, Doc: "processors of each process (--cpus-per-task)"},
			{Name: "memory", Type: cty.String, Doc: "memory of each node (--mem)"},
			{Name: "tasks", Type: cty.Number, Default: "1", Doc: "tasks that the cases are split into, at most"},
			{Name: "parallel", Type: cty.Number, Doc: "tasks that may run at the same time, of all collects of the run; all where it is left away"},
			{Name: "job_name", Type: cty.String, Doc: "name of the job (-J); the collect's address where it is left away"},
			{Name: "logs", Type: cty.String, Doc: "folder of the jobs' output, relative to the plan; the state folder where it is left away"},
			{Name: "modules", Type: cty.List(cty.String), Doc: "modules that every task loads"},
			{Name: "setup", Type: cty.List(cty.String), Doc: "lines of the script before aicplan starts, such as the activation of an environment"},
			{Name: "options", Type: cty.Map(cty.String), Doc: "further options of sbatch by their long names; an empty text gives a flag"},
			{Name: "program", Type: cty.String, Doc: "the path of aicplan on the nodes; this program's own where it is left away"},
			{Name: "drain", Type: cty.String, Default: `"120s"`, Doc: "how long before its time limit a task stops taking cases"},
			{Name: "poll", Type: cty.String, Default: `"5s"`, Doc: "how often the queue is looked at"},
			{Name: "attempts", Type: cty.Number, Default: "3", Doc: "how often a task that ends without one more row is submitted"},
			{Name: "start_within", Type: cty.String, Doc: "how long a task may wait in the queue before it is cancelled; for ever where it is left away"},
			{Name: "settle", Type: cty.String, Default: `"60s"`, Doc: "how long the shared file system may take to show here what a task wrote there"},
		},
		Blocks: []stage.Block{
			{Name: "container", Doc: "the container that every task runs in", Options: []stage.Option{
				{Name: "kind", Type: cty.String, Required: true, OneOf: []string{Pyxis, Apptainer}, Doc: "pyxis (srun --container-image, with enroot) or apptainer"},
				{Name: "image", Type: cty.String, Required: true, Doc: "the image"},
				{Name: "mounts", Type: cty.List(cty.String), Doc: "folders as FROM:TO; the state folder, the plan's and aicplan's own are mounted anyway"},
				{Name: "options", Type: cty.List(cty.String), Doc: "further arguments"},
			}},
			{Name: "sentinels", Doc: "cases that every task measures first, to compare the nodes", Options: []stage.Option{
				{Name: "cases", Type: cty.Number, Default: "3", Doc: "how many"},
				{Name: "limit", Type: cty.Number, Default: "0.05", Doc: "by which share a node may differ from the median of all before its rows are marked"},
			}},
		},
	}
}
