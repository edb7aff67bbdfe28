// Package executors implements the block "executor", which selects where the cases of a collect are
// measured. The kind "local" measures in this process. The kind "slurm" splits the cases into tasks of
// job arrays, and every task runs aicplan on a node of the cluster. An executor does not change cache
// keys, because a row does not depend on the node that measured it.
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

// Kind returns the executor block for registration.
func Kind() stage.ServiceKind {
	return stage.ServiceKind{
		Name:    "executor",
		Summary: "where the cases of a collect are measured: here, or in jobs of Slurm",
		Options: []stage.Option{
			{Name: "kind", Type: cty.String, Required: true, OneOf: []string{Local, Slurm},
				Doc: "local measures in this process, slurm in jobs"},
			{Name: "account", Type: cty.String, Doc: "the account that is charged (-A)"},
			{Name: "partition", Type: cty.String, Doc: "the partition (-p)"},
			{Name: "qos", Type: cty.String, Doc: "the quality of service (-q)"},
			{Name: "constraint", Type: cty.String, Doc: "features that the nodes must have (-C)"},
			{Name: "time", Type: cty.String, Doc: "time limit of a task in Slurm's notation: 30, 00:30:00, 1-00 (-t)"},
			{Name: "memory", Type: cty.String, Check: checkMemory,
				Doc: "memory of each node of a task, such as 64G (--mem)"},
			{Name: "grow", Type: cty.Number, Default: "1",
				Doc: "factor by which time or memory of a task grows if Slurm ended its last try for lack of it"},
			{Name: "nodes", Type: cty.Number, Default: "1", Doc: "nodes of each task (-N)"},
			{Name: "tasks_per_node", Type: cty.Number, Default: "1",
				Doc: "processes on each node that srun starts (--ntasks-per-node)"},
			{Name: "gpus_per_node", Type: cty.Number, Doc: "GPUs of each node (--gpus-per-node)"},
			{
				Name: "gpus_by",
				Type: cty.List(cty.String),
				Doc: "columns whose product is the number of GPUs that a case needs: an array for each number, on as few nodes " +
					"as have them; gpus_per_node is then the most",
			},
			{Name: "tasks", Type: cty.Number, Default: "1", Doc: "tasks that the cases are split into, at most"},
			{Name: "parallel", Type: cty.Number,
				Doc: "tasks of an array that run at the same time (--array=...%N); no limit by default"},
			{Name: "job_name", Type: cty.String, Doc: "name of the job (-J); the collect's address by default"},
			{Name: "logs", Type: cty.String,
				Doc: "folder of the jobs' output, relative to the plan; inside the state folder by default"},
			{Name: "modules", Type: cty.List(cty.String), Doc: "modules that every task loads"},
			{Name: "setup", Type: cty.List(cty.String),
				Doc: "lines of the script before aicplan starts, such as the activation of an environment"},
			{Name: "options", Type: cty.Map(cty.String),
				Doc: "further options of sbatch by their long names; an empty text gives a flag"},
			{Name: "drain", Type: cty.String, Default: `"120s"`,
				Doc: "how long before its time limit a task stops taking cases"},
			{Name: "poll", Type: cty.String, Default: `"5s"`, Doc: "interval at which the queue is read"},
			{Name: "attempts", Type: cty.Number, Default: "3",
				Doc: "submissions in a row without a new row after which a task is given up"},
		},
		Blocks: []stage.Block{
			{Name: "container", Doc: "the container that every task runs in", Options: []stage.Option{
				{Name: "kind", Type: cty.String, Required: true, OneOf: []string{Pyxis, Apptainer},
					Doc: "pyxis (srun --container-image, with enroot) or apptainer"},
				{Name: "image", Type: cty.String, Required: true, Doc: "the image"},
				{Name: "mounts", Type: cty.List(cty.String),
					Doc: "folders as FROM:TO; the state folder, the plan's and aicplan's own are always mounted"},
			}},
		},
	}
}
