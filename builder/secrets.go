package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/secrets/secretsprovider"
	"github.com/moby/buildkit/session/sshforward/sshprovider"
)

// A file system in memory, which no step sees.
const memoryFolder = "/dev/shm"

// What the gateway left of a job in memoryFolder/JOB.json, by their ids.
type givenSecrets struct {
	Secrets map[string][]byte `json:"secrets"`
	Keys    map[string][]byte `json:"ssh"`
}

// Read once, and gone from there.
func takeSecrets(folder string) (*givenSecrets, error) {
	path := filepath.Join(memoryFolder, filepath.Base(folder)+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, failure{"context_lost", "the builder has lost the secrets of the build"}
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	var given givenSecrets
	return &given, json.Unmarshal(text, &given)
}

func innermost(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// Agents that hold one key each. They take it from a file, which goes at once.
func attachKeys(keys map[string][]byte) (session.Attachable, error) {
	folder, err := os.MkdirTemp(memoryFolder, "keys")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	var agents []sshprovider.AgentConfig
	for id, key := range keys {
		path := filepath.Join(folder, id)
		if err := os.WriteFile(path, key, 0o600); err != nil {
			return nil, err
		}
		agent := sshprovider.AgentConfig{ID: id, Paths: []string{path}}
		if _, err := sshprovider.NewSSHAgentProvider([]sshprovider.AgentConfig{agent}); err != nil {
			return nil, failure{"ssh_key_invalid", fmt.Sprintf("ssh key %q: %s", id, innermost(err))}
		}
		agents = append(agents, agent)
	}
	return sshprovider.NewSSHAgentProvider(agents)
}

// What `RUN --mount=type=secret` and `type=ssh` are given.
func attachSecrets(folder string, description *job) ([]session.Attachable, error) {
	if !description.Secrets {
		return nil, nil
	}
	given, err := takeSecrets(folder)
	if err != nil {
		return nil, err
	}
	attached := []session.Attachable{secretsprovider.FromMap(given.Secrets)}
	if len(given.Keys) == 0 {
		return attached, nil
	}
	keys, err := attachKeys(given.Keys)
	if err != nil {
		return nil, err
	}
	return append(attached, keys), nil
}
