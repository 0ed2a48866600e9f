#!/bin/bash
timeout 2 bash -c 'exec 3<> /dev/tcp/198.51.100.2/80' 2> /dev/null || echo refused > /answer
