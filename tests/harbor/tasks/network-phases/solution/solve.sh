#!/bin/bash
timeout 2 bash -c "cat < /dev/tcp/198.51.100.162/18097" 2> /dev/null || echo refused > /answer
