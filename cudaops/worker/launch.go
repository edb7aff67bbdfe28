package worker

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// bridge connects the worker's descriptors 3 and 4 to standard input and output of the
// command, because launchers pass on no others.
const bridge = `exec "$@" <&3 >&4 3<&- 4>&-`

// Through returns the program and its arguments, starting with its name, that start a
// worker through a launcher such as docker run or srun. The worker then uses its standard
// input and output for the protocol, which the flags --fd-in and --fd-out after its command
// request, and must print to standard error. The element {image} of the launcher is replaced
// by the image, which otherwise follows the launcher. The launcher must make the files of the
// command available under the same paths and keep standard input open (docker run -i).
func Through(launcher []string, image string, command []string) (path string, args []string, err error) {
	if len(launcher) == 0 {
		return "", nil, errors.New("the launcher is empty")
	}

	program, err := exec.LookPath(launcher[0])
	if err != nil {
		return "", nil, fmt.Errorf("launcher: %w", err)
	}

	args = []string{"/bin/sh", "-c", bridge, "aicplan-launch", program}
	named := false
	for _, a := range launcher[1:] {
		if strings.Contains(a, "{image}") {
			if image == "" {
				return "", nil, errors.New("the launcher contains {image} and the runtime names no image")
			}

			a, named = strings.ReplaceAll(a, "{image}", image), true
		}

		args = append(args, a)
	}

	if image != "" && !named {
		args = append(args, image)
	}

	args = append(args, command...)
	return args[0], append(args, "--fd-in", "0", "--fd-out", "1"), nil
}
