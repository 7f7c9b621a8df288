"""What the tools do: for each declaration a function of the same name and arguments, a Call first."""
