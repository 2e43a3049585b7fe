"""What an operator is: called, sliced, copied and combined; knows no concrete operator."""
