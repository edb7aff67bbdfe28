package export

import (
	"encoding/json"
	"errors"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/tree"
)

// besideSpecs stages the files next to the specs of systems that the block asks
// for: which version can be asked for, and the framework's own attention kernels. It returns a digest of the kernels,
// which identify the files for their readers, or "" without kernels.
func (c *Config) besideSpecs(batch *fileutil.Batch, rc *stage.RunContext, t target, partial bool) (string, error) {
	if c.Current {
		if partial {
			return "", errors.New("current = true, and the data is partial: readers would take it for the newest complete " +
				"version")
		}

		path, err := c.within(rc.OutDir, tree.SlotsFile)
		if err != nil {
			return "", err
		}

		err = restage(batch, path, func(data []byte) ([]byte, error) {
			return tree.NextSlots(data, t.place.System, t.place.Backend, t.place.Version)
		})
		if err != nil {
			return "", err
		}
	}

	if len(c.AttentionLanes) == 0 {
		return "", nil
	}

	path, err := c.within(rc.OutDir, tree.LanesFile)
	if err != nil {
		return "", err
	}

	lanes, _ := json.Marshal(c.AttentionLanes) // a map of texts
	return fileutil.Digest(lanes), restage(batch, path, func(data []byte) ([]byte, error) {
		return tree.NextLanes(data, t.place.Backend, t.place.Version, c.AttentionLanes)
	})
}
