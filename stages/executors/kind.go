// Package executors implements the block "executor", which selects where the cases of a collect are
// measured. The kind "local" measures in this process. The kind "slurm" splits the cases into tasks of
// job arrays, and every task runs aicplan on a node of the cluster. An executor does not change cache
// keys, because a row does not depend on the node that measured it.
package executors

import (
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
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
	options := new(Config).options()
	return stage.ServiceKind{
		Name:    "executor",
		Summary: "where the cases of a collect are measured: here, or in jobs of Slurm",
		Options: runtimes.Options(options),
		Blocks:  runtimes.Blocks(options),
	}
}

// most is the largest number of nodes, tasks and the like.
const most = 99999

func (c *Config) options() []worker.Option {
	return []worker.Option{
		{Name: "kind", Into: &c.Kind, Required: true, OneOf: []string{Local, Slurm},
			Doc: "local measures in this process, slurm in jobs"},
		{Name: "account", Into: &c.Account, Doc: "the account that is charged (-A)"},
		{Name: "partition", Into: &c.Partition, Doc: "the partition (-p)"},
		{Name: "qos", Into: &c.QOS, Doc: "the quality of service (-q)"},
		{Name: "constraint", Into: &c.Constraint, Doc: "features that the nodes must have (-C)"},
		{Name: "time", Into: &c.Time, Doc: "time limit of a task in Slurm's notation: 30, 00:30:00, 1-00 (-t)"},
		{Name: "memory", Into: &c.Memory, Check: checkMemory, Doc: "memory of each node of a task, such as 64G (--mem)"},
		{Name: "grow", Into: &c.Grow, Default: 1.0, Min: 1, Max: 16,
			Doc: "factor by which time or memory of a task grows if Slurm ended its last try for lack of it"},
		{Name: "nodes", Into: &c.Nodes, Default: 1, Min: 1, Max: most, Doc: "nodes of each task (-N)"},
		{Name: "tasks_per_node", Into: &c.TasksPerNode, Default: 1, Min: 1, Max: most,
			Doc: "processes on each node that srun starts (--ntasks-per-node)"},
		{Name: "gpus_per_node", Into: &c.GPUsPerNode, Max: most, Doc: "GPUs of each node (--gpus-per-node)"},
		{Name: "gpus_by", Into: &c.GPUsBy,
			Doc: "columns whose product is the number of GPUs that a case needs: an array for each number, on as few nodes " +
				"as have them; gpus_per_node is then the most"},
		{Name: "tasks", Into: &c.Tasks, Default: 1, Min: 1, Max: most,
			Doc: "tasks that the cases are split into, at most"},
		{Name: "parallel", Into: &c.Parallel, Max: most,
			Doc: "tasks of an array that run at the same time (--array=...%N); no limit by default"},
		{Name: "job_name", Into: &c.JobName, Doc: "name of the job (-J); the collect's address by default"},
		{Name: "logs", Into: &c.Logs,
			Doc: "folder of the jobs' output, relative to the plan; inside the state folder by default"},
		{Name: "modules", Into: &c.Modules, Doc: "modules that every task loads"},
		{Name: "setup", Into: &c.Setup,
			Doc: "lines of the script before aicplan starts, such as the activation of an environment"},
		{Name: "options", Into: &c.Options,
			Doc: "further options of sbatch by their long names; an empty text gives a flag"},
		{Name: "drain", Into: (*worker.Duration)(&c.Drain), Default: worker.Duration(120 * time.Second),
			Doc: "how long before its time limit a task stops taking cases"},
		{Name: "poll", Into: (*worker.Duration)(&c.Poll), Default: worker.Duration(5 * time.Second),
			Doc: "interval at which the queue is read"},
		{Name: "attempts", Into: &c.Attempts, Default: 3, Min: 1, Max: most,
			Doc: "submissions in a row without a new row after which a task is given up"},
		{Name: "container", Doc: "the container that every task runs in", Block: []worker.Option{
			{Name: "kind", Into: &c.Container.Kind, Required: true, OneOf: []string{Pyxis, Apptainer},
				Doc: "pyxis (srun --container-image, with enroot) or apptainer"},
			{Name: "image", Into: &c.Container.Image, Required: true, Doc: "the image"},
			{Name: "mounts", Into: &c.Container.Mounts,
				Doc: "folders as FROM:TO; the state folder, the plan's and aicplan's own are always mounted"},
		}},
	}
}
