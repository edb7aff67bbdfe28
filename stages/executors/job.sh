#!/bin/bash
{{with .Account}}#SBATCH -A {{quote .}}
{{end}}{{with .Constraint}}#SBATCH -C {{quote .}}
{{end}}{{with .Partition}}#SBATCH -p {{quote .}}
{{end}}{{with .QOS}}#SBATCH -q {{quote .}}
{{end}}{{with .Time}}#SBATCH -t {{quote .}}
{{end}}{{with .Memory}}#SBATCH --mem={{.}}
{{end}}#SBATCH -N {{.Nodes}}
#SBATCH --ntasks-per-node={{.TasksPerNode}}
{{with .GPUsPerNode}}#SBATCH --gpus-per-node={{.}}
{{end}}#SBATCH -J {{quote .Title}}
#SBATCH -o {{quote (print .Output ".out")}}
#SBATCH -e {{quote (print .Output ".err")}}
{{range $name, $value := .Options}}#SBATCH --{{$name}}{{with $value}}={{quote .}}{{end}}
{{end}}{{/* The tasks depend on these: a signal before the time limit, a requeue after it, one output file of all tries. */ -}}
#SBATCH --signal=B:USR1@{{.Drain.Seconds}}
#SBATCH --requeue
#SBATCH --open-mode=append

set -e
{{range .Modules}}module load {{.}}
{{end}}{{range .Setup}}{{.}}
{{end}}{{/* exec, because Slurm sends the signal before the time limit to the process of the script. */ -}}
exec {{.Through}}{{word .Program}} --state-dir {{word .StateDir}} task {{word .OrderDir}} --offset "${1:-0}" --submission "${2:-0}"
